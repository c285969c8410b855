"""What each kind of client is set to, as plain values. Pure: no client is created here."""
