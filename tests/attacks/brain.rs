//! A brain process that tries to act as the operator.
