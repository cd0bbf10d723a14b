//! What must not compile: a signature without a capability, a capability made outside the pipeline,
//! one used twice, one copied.

#[test]
fn there_is_no_way_around_the_capability() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
