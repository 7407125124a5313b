"""Files of an exported project besides the trained network; they need only numpy."""
