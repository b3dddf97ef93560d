//! Inputs of what is kept or watched: positions, events, annotations.

use super::Seeds;

/// Positions on disk, what the API server tells of pods, and what pods' annotations ask.
pub(super) fn seeds() -> Seeds {
    let entry = r#""d":1,"i":2,"f":{"l":5,"h":77},"o":100,"m":9,"p":"/l/a.log""#;
    let documents = [
        r#"{"begun":[],"files":[]}"#.to_owned(),
        format!(r#"{{"begun":["a","c"],"files":[{{{entry}}},{{{entry}}}]}}"#),
        format!(
            r#"{{"files":[{{{entry},"w":[90,10,120],"b":"/l/b.log"}}],
               "packed":[[{{{entry}}},{{"e":700,"z":[9,8]}}],[{{{entry}}},{{"e":null}}]],
               "names":[["/l/c.log",5]]}}"#
        ),
        r#"{"boot":"0f3c-1","next":77}"#.to_owned(),
        "millrace-positions 1 0000000000000000\n{}".to_owned(),
    ];
    let positions = documents.iter().flat_map(|text| {
        let with = |control: u8| [&[control, 7], text.as_bytes()].concat();
        [0, 1, 2].map(with)
    });
    let metadata = r#"{"name":"p","namespace":"n","uid":"u","resourceVersion":"7","labels":{"app":
        "a","pod-template-hash":"5c7d9b6f4"},"annotations":{"millrace.dev/logs":"off",
        "kubernetes.io/config.mirror":"h"},"ownerReferences":[{"kind":"ReplicaSet","controller":
        true,"name":"p-5c7d9b6f4"},{"kind":"Node","name":"x"},{"kind":"Job","controller":true,
        "name":"c-29401920"}]}"#;
    let metadata = metadata.replace('\n', "");
    let event = |kind: &str, object: &str| format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
    let pod = format!("{{\"metadata\":{metadata}}}");
    let answers = [
        event("ADDED", &pod) + &event("DELETED", &pod),
        event("MODIFIED", &pod) + "\n \n" + &event("BOOKMARK", r#"{"metadata":{}}"#),
        event("ERROR", r#"{"code":410,"message":"too old"}"#) + &event("ADDED", &pod),
        event("ADDED", "[]") + "{]\n" + &event("LATER", "{}"),
    ];
    let events = (0..).zip(&answers).flat_map(|(number, text): (u8, _)| {
        [[number * 9, 255], [0, 8]].map(|control| [&control[..], text.as_bytes()].concat())
    });
    let asked = [
        "=off\n.app=on\n-parser=JSON\n-multiline.web=^\\\\d{4}-\\\\d\\\\d\n-parser.web=logfmt",
        "-multiline=java\n-multiline.a=Python\n-multiline.b=go\n-multiline.c=nodejs\n-multiline.d=rust",
        "=false\n-parsers=x\n-multiline=^(\n-multiline.a=^[ab]*a[ab]{1900}Z\n-parser=none\n-multiline.b=none",
    ];
    Seeds::from([
        ("positions", positions.collect()),
        ("pod_events", events.collect()),
        ("pod_annotations", asked.map(|text| text.as_bytes().to_vec()).to_vec()),
    ])
}
