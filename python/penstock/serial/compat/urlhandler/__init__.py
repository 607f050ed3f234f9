"""``serial.urlhandler``: which class opens which URL, one module for each kind of URL.

The form is pyserial's, so that a package of handlers made for it can be added to
``protocol_handler_packages``: a module ``protocol_KIND`` has a class ``Serial``, or a function
``serial_class_for_url`` that returns a port's name and a class.
"""
