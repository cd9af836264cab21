"""The use cases: what callers may ask of Gnomon, whichever way they ask.

A use case takes the transaction or the store that it works on, the `Rules` where it needs any, the
principal who asks, and typed inputs. It returns model objects or raises errors of the model. The
API, the command line and whatever else speaks to people or programs parse, call it, and show what
it returns. The role of the caller has been checked before; nothing here knows of HTTP.
"""
