//! The upgrade engine. Pure: no I/O, no clock, no Kubernetes client.
