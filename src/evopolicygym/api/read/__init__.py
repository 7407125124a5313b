"""Reading: results, comparisons, diagnoses, exports, reports and the verification of records."""
