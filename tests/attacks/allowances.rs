//! Allowances for contracts that anybody can use, and orders that stay open for days.
