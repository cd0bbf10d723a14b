//! Ids, and the names of key files. The rows are tested with the account that uses them (`delegated::refusals`).

use super::SessionKeyId;

#[test]
fn the_id_of_a_session_key_names_its_key_file_and_leads_to_no_other_folder() {
    let id = SessionKeyId::random();
    assert_eq!(id.to_string().parse(), Ok(id));
    assert_eq!(id.key_name().unwrap().to_string(), format!("session-{id}"));
    for wrong in ["", "../../key", "0123456789ABCDEF0123456789ABCDEF", "0123"] {
        assert!(wrong.parse::<SessionKeyId>().is_err(), "{wrong}");
    }
}
