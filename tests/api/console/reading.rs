//! Pages of the console as a person reads them.

use crate::support::Answer;

/// A page's text with every space one blank, without its tags. A narrow space of a number is an underscore.
pub(super) fn text(body: &str) -> String {
    let mut text = String::new();
    let mut is_inside = true;
    for character in body.chars() {
        match character {
            '<' => is_inside = false,
            '>' => {
                is_inside = true;
                text.push(' ');
            }
            '\u{202f}' if is_inside => text.push('_'),
            _ if is_inside => text.push(character),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text of a page below its heading, without header and navigation.
pub(super) fn content(page: &Answer) -> String {
    let (_, rest) = page.body.split_once("</h1>").expect("a heading");
    text(rest.split("</main>").next().unwrap())
}

/// The cells of a table's rows, as text.
pub(super) fn rows(body: &str) -> Vec<Vec<String>> {
    let cells = |row: &str| -> Vec<String> {
        let row = row.split("</tr>").next().unwrap_or_default().replace("</time>", "");
        let cells = row.split("</t").filter_map(|cell| cell.find("<t").map(|at| text(&cell[at..])));
        cells.collect()
    };
    body.split("<tr>").skip(2).map(cells).collect()
}

/// The address of a link with this text.
pub(super) fn link_called(page: &Answer, text: &str) -> Option<String> {
    let (before, _) = page.body.split_once(&format!("\">{text}</a>"))?;
    let (_, address) = before.rsplit_once("href=\"").unwrap();
    // Other attributes may follow.
    let address = address.split('"').next().unwrap_or_default();
    Some(address.replace("&#38;", "&").replace("&amp;", "&"))
}

/// The value of a form's field.
pub(super) fn value_of(page: &Answer, name: &str) -> String {
    let (_, rest) = page.body.split_once(&format!("name=\"{name}\" value=\"")).expect("the field");
    rest.split('"').next().unwrap().to_owned()
}
