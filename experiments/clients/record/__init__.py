"""What a record holds: the layout of its value, its keys and its headers, and the compiled code that writes and checks them."""
