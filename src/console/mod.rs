//! The full-screen program: state (pure), view (pure), keys, terminal.
