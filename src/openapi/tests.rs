use super::*;

/// A call that answers `body` or is refused with `refusal`.
fn call(id: &'static str, body: &Value, refusal: &Value) -> Call {
    let content = Content::Json { schema: schema::<Vec<String>>(), example: body.clone() };
    let refused = Refused { statuses: [200, 422], code: "7".to_owned(), body: refusal.clone(), waits: true };
    let operation = Operation::new("Do it", "It is done.")
        .answers(Success::new("done", "It is done.", 200, content))
        .refuses([Example { name: "refused", summary: "It cannot be done.", refusal: refused }]);
    Call { id, method: "POST", path: "/it", tag: "It", operation, refusal: schema::<u32>() }
}

fn document(calls: Vec<Call>) -> Value {
    let api = Api {
        title: "It",
        summary: "It",
        description: String::new(),
        server: (String::new(), "It"),
        api_key: None,
        strict: false,
        tags: &[("It", "It")],
        refusal_type: JSON,
        refusals_in_words: |refusals, status| format!("{} at {status}.", refusals.len()),
        calls,
    };
    serde_json::to_value(api.document()).unwrap()
}

#[test]
fn an_example_that_reads_the_same_in_every_call_stands_once() {
    let (done, refused) = (json!(["done"]), json!(7));
    let document = document(vec![call("one", &done, &refused), call("other", &json!([]), &refused)]);
    let examples = document["components"]["examples"].as_object().unwrap();
    let names: Vec<&str> = examples.keys().map(String::as_str).collect();
    assert_eq!(names, ["one.done", "other.done", "refused"]);
    assert_eq!(examples["refused"], json!({ "summary": "It cannot be done.", "value": 7 }));
}

#[test]
fn a_status_shows_the_answers_that_can_have_it() {
    let document = document(vec![call("one", &json!([]), &json!(7))]);
    let responses = &document["paths"]["/it"]["post"]["responses"];
    let both = &responses["200"];
    assert_eq!(both["description"], "It is done. 1 at 200.");
    assert_eq!(both["content"][JSON]["schema"]["anyOf"].as_array().unwrap().len(), 2);
    let refused = &responses["422"];
    assert_eq!(
        refused["content"][JSON]["schema"],
        json!({ "type": "integer", "format": "int64", "minimum": 0 })
    );
    assert!(refused["headers"]["Retry-After"].is_object());
}

#[test]
#[should_panic(expected = "two types are named Same")]
fn two_types_of_one_name_are_refused() {
    let named =
        |schema: Value| Schema { root: json!({}), named: BTreeMap::from([("Same".to_owned(), schema)]) };
    let with = |schema: Value| Call { refusal: named(schema), ..call("one", &json!([]), &json!(7)) };
    document(vec![with(json!({ "type": "string" })), with(json!({ "type": "integer" }))]);
}
