//! A script in the operator's terminal: lifting a halt, loosening a policy, reusing an approval.
