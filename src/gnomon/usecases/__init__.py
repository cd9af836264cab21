"""The use cases: what callers may ask of Gnomon, whichever way they ask.

A use case takes the transaction or store that it works on, the TenantRules where it needs them, the
principal who asks, and typed inputs. It returns model objects or raises errors of the model. The
API, the command line and every other caller parse a request, call a use case, and show what it
returns. They check the role of the principal before; nothing here knows of HTTP.
"""
