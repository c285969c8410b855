"""Why a record was lost, duplicated or reordered: anomalous records tied to the evidence of brokers and clients."""
