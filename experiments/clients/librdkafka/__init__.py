"""librdkafka itself: the loaded library, its functions for compiled code, a client handle, its admin requests and its log."""
