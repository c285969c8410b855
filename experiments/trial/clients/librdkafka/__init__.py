"""librdkafka: the library, compiled code on top of it, its clients, admin requests and logs."""
