//! The tree of files: checksums, writing all or nothing, verifying.
