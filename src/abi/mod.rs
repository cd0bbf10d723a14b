//! Every `sol!` in one place.
