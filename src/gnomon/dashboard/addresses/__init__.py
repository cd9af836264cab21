"""What addresses of pages say: filters, columns, the time looked back on."""
