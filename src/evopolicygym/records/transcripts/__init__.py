"""What agents said and did, read from the transcripts in records: a reader for each format that tools print."""
