//! Words of the code: the head of a module says what it is, in words that a search finds.

use crate::sources::{read, texts};

/// Words with which a question begins. A module is a thing, and its head names the thing.
const QUESTIONS: [&str; 9] = ["How", "What", "When", "Where", "Whether", "Which", "Who", "Whose", "Why"];

#[test]
fn the_head_of_a_module_begins_with_what_the_module_is() {
    let mut heads = 0;
    let mut questions = Vec::new();
    for path in texts().into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs")) {
        let text = read(&path);
        let Some(head) = text.lines().find_map(|line| line.strip_prefix("//! ")) else { continue };
        heads += 1;
        if QUESTIONS.iter().any(|question| head.split(' ').next() == Some(*question)) {
            questions.push(format!("{}: {head}", path.display()));
        }
    }
    assert!(heads > 500, "only {heads} heads were read");
    assert!(questions.is_empty(), "heads that begin with a question:\n{}", questions.join("\n"));
}
