//! The run record: what a run did, kept in the ConfigMap of its hook release. Data key `run` holds [`Run`], and
//! `node.<name>` holds a [`NodeRecord`], so that one node's progress is one small patch.
