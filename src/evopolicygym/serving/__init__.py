"""HTTP serving shared by the judge, the model proxy and the viewer."""
