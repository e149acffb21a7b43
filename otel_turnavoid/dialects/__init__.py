"""Pure: spans of each vocabulary -> facts; one file per vocabulary."""
