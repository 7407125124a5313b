"""The export formats. A file defines ``Exporter``; its name is the format's."""
