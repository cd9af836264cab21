"""SVG and data of charts. Style sheets give them their colours."""
