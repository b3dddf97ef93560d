//! Tests of the private code of `answer.rs`.

use proptest::prelude::*;

use super::*;

/// The answer of a ZooKeeper 3.9 leader, shortened.
const ZOOKEEPER: &str = "zk_version\t3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on \
    2024-10-17 23:21 UTC\nzk_server_state\tleader\nzk_peer_state\tleading - broadcast\n\
    zk_ephemerals_count\t3\nzk_avg_latency\t0.5556\nzk_num_alive_connections\t2\n\
    zk_outstanding_requests\t7\nzk_znode_count\t1087\nzk_watch_count\t26\n\
    zk_approximate_data_size\t426062\nzk_quorum_size\t3\nzk_synced_followers\t2\n\
    zk_learners\t2\nzk_max_latency\t12\n";
/// The answer of a Keeper leader.
const KEEPER: &str = "zk_version\tv26.9.2.1-stable\nzk_avg_latency\t0\nzk_max_latency\t11\n\
    zk_outstanding_requests\t0\nzk_server_state\tleader\nzk_znode_count\t135\nzk_watch_count\t8\n\
    zk_approximate_data_size\t42533\nzk_followers\t2\nzk_synced_followers\t1\n";

/// Scenario: answers of both servers. Guarantee: each figure that a verdict needs is read.
#[test]
fn leaders_of_both_are_read() {
    let report = parse_mntr(ZOOKEEPER).unwrap();
    assert_eq!((report.role, report.followers), (ServerRole::Leader, None));
    assert_eq!((report.synced_followers, report.voters), (Some(2), Some(3)));
    assert_eq!((report.znodes, report.data_bytes), (Some(1_087), Some(426_062)));
    assert_eq!((report.outstanding_requests, report.watches), (Some(7), Some(26)));
    assert_eq!(report.latency_milliseconds, Some(0.5556));
    let report = parse_mntr(KEEPER).unwrap();
    assert_eq!((report.role, report.followers), (ServerRole::Leader, Some(2)));
    assert_eq!((report.synced_followers, report.voters), (Some(1), None));
}

/// Scenario: a server without a leader, one that doesn't allow the command, a web server, an empty
/// answer. Guarantee: the errors distinguish them.
#[test]
fn servers_that_say_no_figures_are_told_apart() {
    let said = |text| parse_mntr(text).unwrap_err();
    let words = "This ZooKeeper instance is not currently serving requests\n";
    assert_eq!(said(words), ProbeError::NotServing);
    assert_eq!(said("This instance is not currently serving requests"), ProbeError::NotServing);
    let words = "mntr is not executed because it is not in the whitelist.\n";
    assert_eq!(said(words), ProbeError::NotAllowed("mntr"));
    for text in ["", "HTTP/1.1 400 Bad Request\r\n", "zk_version\t3.9\n", "imok"] {
        assert_eq!(said(text), ProbeError::Foreign, "{text}");
    }
}

/// Scenario: a figure is -1, of another type, or too large. Guarantee: it is omitted, and the
/// others are read.
#[test]
fn a_figure_that_is_none_is_left_out() {
    let text = "zk_server_state\tfollower\nzk_znode_count\t-1\nzk_watch_count\tmany\n\
        zk_outstanding_requests\t3\nzk_avg_latency\tNaN\n";
    let report = parse_mntr(text).unwrap();
    assert_eq!((report.znodes, report.watches, report.latency_milliseconds), (None, None, None));
    assert_eq!(report.outstanding_requests, Some(3));
}

/// Scenario: sizes as each server writes them. Guarantee: they are summed.
#[test]
fn bytes_on_disk_are_summed() {
    assert_eq!(parse_dirs("datadir_size: 67108880\nlogdir_size: 20\n"), Ok(67_108_900));
    assert_eq!(parse_dirs("snapshot_dir_size: 0\nlog_dir_size: 3875\n"), Ok(3_875));
    assert_eq!(parse_dirs("imok"), Err(ProbeError::Foreign));
}

/// Scenario: the HTTP API's answers. Guarantee: the command's text is returned, or the reason why
/// there is none.
#[test]
fn the_http_api_is_read() {
    let body = serde_json::json!({"result": KEEPER}).to_string();
    assert!(parse_mntr(&unwrap_envelope(200, &body, MNTR).unwrap()).is_ok());
    let body = r#"{"message":"Command is disabled. Check server settings."}"#;
    assert_eq!(unwrap_envelope(403, body, MNTR), Err(ProbeError::NotAllowed("mntr")));
    assert_eq!(unwrap_envelope(200, "<html>", MNTR), Err(ProbeError::Foreign));
    let ready_as = |has| format!(r#"{{"details":{{"hasLeader":{has},"role":"x"}},"status":"s"}}"#);
    assert_eq!(parse_ready(&ready_as(true)), Ok(true));
    assert_eq!(parse_ready(&ready_as(false)), Ok(false));
    assert_eq!(parse_ready("{}"), Err(ProbeError::Foreign));
}

proptest! {
    /// Scenario: any text. Guarantee: it is read or rejected, with no more figures than lines.
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,400}", tail in "(zk_[a-z_]{1,24}[\t ].{0,20}\n){0,8}") {
        let _ = (parse_mntr(&text), parse_dirs(&text), unwrap_envelope(200, &text, MNTR), parse_ready(&text));
        let read = parse_mntr(&format!("zk_server_state\tleader\n{tail}"));
        prop_assert!(read.is_ok() || read == Err(ProbeError::Foreign));
    }
}
