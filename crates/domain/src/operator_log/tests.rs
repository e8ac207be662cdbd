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
    state: None,
    salt: Some(&[7; 16]),
    content_hash: &[3; 32],
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
        ChainedLine { content_hash: &[4; 32], ..LINE },
        // The same bytes, cut elsewhere.
        ChainedLine { operator: "alic", action: "eapp.suspend", ..LINE },
    ];
    let hash = LINE.chain_hash(&CHAIN_START);
    for line in changed {
        assert_ne!(line.chain_hash(&CHAIN_START), hash, "{line:?}");
    }
    assert_ne!(LINE.chain_hash(&[1; 32]), hash, "the hash before");
    let changed = [
        ChainedLine { salt: None, ..LINE },
        ChainedLine { salt: Some(&[8; 16]), ..LINE },
        ChainedLine { subject: "a3", ..LINE },
        ChainedLine { before: None, ..LINE },
        ChainedLine { before: None, after: Some("{}"), ..LINE },
        ChainedLine { after: Some(""), ..LINE },
        ChainedLine { note: "x", ..LINE },
        ChainedLine { credits: Some("[]"), ..LINE },
        ChainedLine { state: Some(""), ..LINE },
        ChainedLine { state: Some("{}"), ..LINE },
    ];
    for line in changed {
        assert_ne!(line.texts_hash(), LINE.texts_hash(), "{line:?}");
    }
}

fn findings(lines: &[ChainedLine<'_>]) -> Vec<String> {
    let (mut check, mut findings, mut previous) =
        (LogCheck::new(LogHead::START), Findings::default(), CHAIN_START);
    for line in lines {
        previous = line.chain_hash(&previous);
        assert!(check.line(line, Some(previous), &mut findings));
    }
    let seq = lines.last().map_or(0, |line| line.seq);
    check.end(Some(LogHead { seq, chain_hash: previous }), &mut findings);
    findings.named().into_iter().map(|finding| finding.detail.clone()).collect()
}

/// Contract 13.7.5: new texts are right only as a later erasure has told of them.
#[test]
fn replaced_texts_are_those_that_an_erasure_told_of() {
    let hash_of = |line: &ChainedLine<'_>| line.texts_hash();
    let written = hash_of(&LINE);
    let written = ChainedLine { content_hash: &written, ..LINE };
    assert_eq!(findings(&[written]), Vec::<String>::new());
    let other = ["line 1: its texts are not those that it was written with"];
    assert_eq!(findings(&[ChainedLine { note: "other", ..written }]), other);

    let replaced = ChainedLine { note: "erased", salt: None, ..written };
    let after = format!(r#"{{"lines": {{"1": "{}"}}}}"#, hex::encode(hash_of(&replaced)));
    let erasure = ChainedLine { seq: 2, action: ERASURE, after: Some(&after), ..LINE };
    let hash = hash_of(&erasure);
    let erasure = ChainedLine { content_hash: &hash, ..erasure };
    assert_eq!(findings(&[replaced, erasure]), Vec::<String>::new());
    let untold = ["line 1: its texts were replaced, and no erasure of a player tells of it"];
    assert_eq!(findings(&[replaced]), untold);
    assert_eq!(findings(&[ChainedLine { note: "more", ..replaced }, erasure]), untold);
}
