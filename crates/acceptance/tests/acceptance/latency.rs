//! The round trip of an unloaded frame is the sum of its known parts.
