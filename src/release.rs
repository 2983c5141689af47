//! Recipe and catalog → ordered releases. Pure.
