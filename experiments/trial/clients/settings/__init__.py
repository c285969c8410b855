"""The settings of each kind of client, as plain mappings. No client is created here."""
