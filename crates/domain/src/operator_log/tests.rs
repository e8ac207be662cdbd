use super::*;

const LINE: ChainedLine<'_> = ChainedLine {
    seq: 1,
    app_id: "a1",
    at: 5,
    id: 9,
    operator_kind: "console",
    operator: "alice",
    action: "app.suspend",
    subject: "a1",
    before: Some("{}"),
    after: None,
    note: "",
    credits: None,
};

/// Rule: the hash covers each column, and tells an absent state from an empty one.
#[test]
fn a_changed_column_changes_the_hash() {
    let changed = [
        ChainedLine { seq: 2, ..LINE },
        ChainedLine { app_id: "a2", ..LINE },
        ChainedLine { at: 6, ..LINE },
        ChainedLine { id: 8, ..LINE },
        ChainedLine { operator_kind: "api_key", ..LINE },
        ChainedLine { operator: "bob", ..LINE },
        ChainedLine { action: "app.resume", ..LINE },
        ChainedLine { subject: "a3", ..LINE },
        ChainedLine { before: None, ..LINE },
        ChainedLine { before: None, after: Some("{}"), ..LINE },
        ChainedLine { after: Some(""), ..LINE },
        ChainedLine { note: "x", ..LINE },
        ChainedLine { credits: Some("[]"), ..LINE },
        // The same bytes, cut elsewhere.
        ChainedLine { operator: "alic", action: "eapp.suspend", ..LINE },
    ];
    let hash = LINE.chain_hash(&CHAIN_START);
    for line in changed {
        assert_ne!(line.chain_hash(&CHAIN_START), hash, "{line:?}");
    }
    assert_ne!(LINE.chain_hash(&[1; 32]), hash, "the hash before");
}
