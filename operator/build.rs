//! Has the linker route three calls inside the client library through `src/kafka/native_intake.rs`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        for name in ["rd_kafka_transport_recv", "rd_buf_destroy", "rd_kafka_broker_update"] {
            println!("cargo:rustc-link-arg=-Wl,--wrap={name}");
        }
    }
}
