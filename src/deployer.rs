//! Releases → the files of a deployer.
