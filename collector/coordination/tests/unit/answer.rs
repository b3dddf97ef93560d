//! Tests of what `answer.rs` keeps to itself.

use proptest::prelude::*;

use super::*;

/// A leader of ZooKeeper 3.9, shortened.
const ZOOKEEPER: &str = "zk_version\t3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on \
    2024-10-17 23:21 UTC\nzk_server_state\tleader\nzk_peer_state\tleading - broadcast\n\
    zk_ephemerals_count\t3\nzk_avg_latency\t0.5556\nzk_num_alive_connections\t2\n\
    zk_outstanding_requests\t7\nzk_znode_count\t1087\nzk_watch_count\t26\n\
    zk_approximate_data_size\t426062\nzk_quorum_size\t3\nzk_synced_followers\t2\n\
    zk_learners\t2\nzk_max_latency\t12\n";
/// A leader of Keeper.
const KEEPER: &str = "zk_version\tv26.9.2.1-stable\nzk_avg_latency\t0\nzk_max_latency\t11\n\
    zk_outstanding_requests\t0\nzk_server_state\tleader\nzk_znode_count\t135\nzk_watch_count\t8\n\
    zk_approximate_data_size\t42533\nzk_followers\t2\nzk_synced_followers\t1\n";

/// Scenario: the answers of both. Guarantee: each figure that a verdict needs is read.
#[test]
fn leaders_of_both_are_read() {
    let report = mntr(ZOOKEEPER).unwrap();
    assert_eq!((report.role, report.followers), (Role::Leader, None));
    assert_eq!((report.synced_followers, report.voters), (Some(2), Some(3)));
    assert_eq!((report.znodes, report.data_bytes), (Some(1_087), Some(426_062)));
    assert_eq!((report.outstanding_requests, report.watches), (Some(7), Some(26)));
    assert_eq!(report.latency_milliseconds, Some(0.5556));
    let report = mntr(KEEPER).unwrap();
    assert_eq!((report.role, report.followers), (Role::Leader, Some(2)));
    assert_eq!((report.synced_followers, report.voters), (Some(1), None));
}

/// Scenario: a server without a leader, one with the command off its list, a web server, nothing.
/// Guarantee: each is told apart.
#[test]
fn servers_that_say_no_figures_are_told_apart() {
    let said = |text| mntr(text).unwrap_err();
    let words = "This ZooKeeper instance is not currently serving requests\n";
    assert_eq!(said(words), Silence::NotServing);
    assert_eq!(said("This instance is not currently serving requests"), Silence::NotServing);
    let words = "mntr is not executed because it is not in the whitelist.\n";
    assert_eq!(said(words), Silence::NotAllowed("mntr"));
    for text in ["", "HTTP/1.1 400 Bad Request\r\n", "zk_version\t3.9\n", "imok"] {
        assert_eq!(said(text), Silence::Foreign, "{text}");
    }
}

/// Scenario: a figure of -1, of another kind, too large. Guarantee: left out, and the others stand.
#[test]
fn a_figure_that_is_none_is_left_out() {
    let text = "zk_server_state\tfollower\nzk_znode_count\t-1\nzk_watch_count\tmany\n\
        zk_outstanding_requests\t3\nzk_avg_latency\tNaN\n";
    let report = mntr(text).unwrap();
    assert_eq!((report.znodes, report.watches, report.latency_milliseconds), (None, None, None));
    assert_eq!(report.outstanding_requests, Some(3));
}

/// Scenario: sizes as either writes them. Guarantee: their sum.
#[test]
fn bytes_on_disk_are_summed() {
    assert_eq!(dirs("datadir_size: 67108880\nlogdir_size: 20\n"), Ok(67_108_900));
    assert_eq!(dirs("snapshot_dir_size: 0\nlog_dir_size: 3875\n"), Ok(3_875));
    assert_eq!(dirs("imok"), Err(Silence::Foreign));
}

/// Scenario: the HTTP API's answers. Guarantee: the command's text, or why there is none.
#[test]
fn the_http_api_is_read() {
    let body = serde_json::json!({"result": KEEPER}).to_string();
    assert!(mntr(&enveloped(200, &body, MNTR).unwrap()).is_ok());
    let body = r#"{"message":"Command is disabled. Check server settings."}"#;
    assert_eq!(enveloped(403, body, MNTR), Err(Silence::NotAllowed("mntr")));
    assert_eq!(enveloped(200, "<html>", MNTR), Err(Silence::Foreign));
    let ready_as = |has| format!(r#"{{"details":{{"hasLeader":{has},"role":"x"}},"status":"s"}}"#);
    assert_eq!(ready(&ready_as(true)), Ok(true));
    assert_eq!(ready(&ready_as(false)), Ok(false));
    assert_eq!(ready("{}"), Err(Silence::Foreign));
}

proptest! {
    /// Scenario: any text. Guarantee: read or refused, and never more figures than there are lines.
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,400}", tail in "(zk_[a-z_]{1,24}[\t ].{0,20}\n){0,8}") {
        let _ = (mntr(&text), dirs(&text), enveloped(200, &text, MNTR), ready(&text));
        let read = mntr(&format!("zk_server_state\tleader\n{tail}"));
        prop_assert!(read.is_ok() || read == Err(Silence::Foreign));
    }
}
