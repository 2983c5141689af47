//! observe → decide → act: one loop.
