//! The stories. Each one starts a stack of its own.

mod accepted;
mod again;
mod api_away;
mod assist;
mod bundle;
mod console;
mod cost;
mod deployers;
mod dra_driver;
mod drive;
mod first_install;
mod killed;
mod local;
mod monitoring;
mod never_ready;
mod no_dra;
mod odd_nodes;
mod operator_upgrade;
mod pace;
mod plan;
mod recipes;
mod rights;
mod traces;
mod trivial;
mod two_hooks;
mod upgrade;
