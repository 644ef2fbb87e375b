//! `polyplane serve` with TLS: rights of controllers, and their actions in the log and the
//! metrics.

mod lab;

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use lab::authority::{Authority, Issued};
use lab::scrape::Scraped;
use lab::{Directory, Running, polyplane};
use p4info::p4::v1 as rt;
use p4info::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4info::p4::v1::stream_message_request::Update;
use p4rt::service::p4_runtime_client::P4RuntimeClient;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};
use tonic::{Code, Streaming};

/// A switch that only clients with certificates can control.
struct Guarded {
    running: Running,
    authority: Authority,
    control: String,
    metrics: String,
    log: Receiver<serde_json::Value>,
    _directory: Directory,
}

impl Guarded {
    fn start(allowed: &[&str]) -> Guarded {
        let authority = Authority::new();
        let directory = Directory::new("control");
        let (certificate, key) = authority.of_host("localhost");
        let mut command = polyplane();
        command
            .args(["serve", "--p4runtime", "127.0.0.1:0"])
            .args(["--metrics", "127.0.0.1:0", "--log", "json,info"])
            .args(["--tls-cert", &directory.with("cert.pem", certificate)])
            .args(["--tls-key", &directory.with("key.pem", key)])
            .args(["--tls-client-ca", &directory.with("ca.pem", &authority.pem)])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for allow in allowed {
            command.args(["--allow", allow]);
        }
        let mut running = Running::start(&mut command);
        let stderr = BufReader::new(running.0.stderr.take().unwrap());
        let (told, log) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).expect("each line is JSON");
                // The test may have stopped reading.
                let _ = told.send(line);
            }
        });
        let mut guarded = Guarded {
            running,
            authority,
            control: String::new(),
            metrics: String::new(),
            log,
            _directory: directory,
        };
        guarded.control = guarded.address("P4Runtime is served at ");
        guarded.metrics = guarded.address("metrics are served at http://");
        guarded
    }

    fn address(&self, words: &str) -> String {
        let line = self.logged(words);
        let message = line["message"].as_str().unwrap();
        let rest = message.strip_prefix(words).unwrap();
        rest.split([';', '/']).next().unwrap().to_owned()
    }

    /// Returns the next log line with these words.
    fn logged(&self, words: &str) -> serde_json::Value {
        loop {
            let line = self.log.recv_timeout(Duration::from_secs(20));
            let line = line.unwrap_or_else(|_| panic!("nothing says {words}"));
            if line["message"]
                .as_str()
                .is_some_and(|m| m.starts_with(words))
            {
                return line;
            }
        }
    }

    async fn client(&self, identity: Issued) -> P4RuntimeClient<Channel> {
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.authority.pem))
            .identity(Identity::from_pem(identity.0, identity.1))
            .domain_name("localhost");
        let channel = Channel::from_shared(format!("https://{}", self.control)).unwrap();
        let channel = channel.tls_config(tls).unwrap().connect().await.unwrap();
        P4RuntimeClient::new(channel)
    }
}

fn election(low: u64) -> Option<rt::Uint128> {
    Some(rt::Uint128 { high: 0, low })
}

/// Opens a stream and requests to be primary.
async fn session(client: &mut P4RuntimeClient<Channel>) -> Streaming<rt::StreamMessageResponse> {
    use tokio_stream::StreamExt;
    let ask = rt::StreamMessageRequest {
        update: Some(Update::Arbitration(rt::MasterArbitrationUpdate {
            device_id: 1,
            election_id: election(7),
            ..Default::default()
        })),
    };
    let requests = tokio_stream::once(ask).chain(tokio_stream::pending());
    client.stream_channel(requests).await.unwrap().into_inner()
}

fn config(text: &str) -> rt::SetForwardingPipelineConfigRequest {
    rt::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: election(7),
        action: Action::VerifyAndCommit.into(),
        config: Some(rt::ForwardingPipelineConfig {
            p4_device_config: text.into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[test]
fn the_log_and_the_metrics_tell_what_controllers_did() {
    let guarded = Guarded::start(&["alice=*"]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut mallory = guarded.client(guarded.authority.of_person("mallory")).await;
        let refused = mallory
            .capabilities(rt::CapabilitiesRequest::default())
            .await;
        assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
        let line = guarded.logged("client refused");
        assert_eq!(line["level"], "WARN");
        assert!(line["why"].as_str().unwrap().contains("mallory"), "{line}");

        let mut alice = guarded.client(guarded.authority.of_person("alice")).await;
        let mut stream = session(&mut alice).await;
        stream.message().await.unwrap().unwrap();
        guarded.logged("session opened");
        let line = guarded.logged("a new primary");
        assert_eq!(
            (&line["device"], &line["election"]),
            (&1.into(), &"7".into())
        );

        let refused = alice.set_forwarding_pipeline_config(config("nonsense"));
        assert_eq!(refused.await.unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(guarded.logged("config refused")["level"], "WARN");
        let router = std::fs::read_to_string(lab::example("router/router.p4")).unwrap();
        let set = alice.set_forwarding_pipeline_config(config(&router)).await;
        set.unwrap();
        assert_eq!(guarded.logged("config set")["action"], "VERIFY_AND_COMMIT");

        let request = rt::WriteRequest {
            device_id: 1,
            election_id: election(7),
            updates: vec![rt::Update::default(); 3],
            ..Default::default()
        };
        alice.write(request).await.unwrap_err();
        assert_eq!(guarded.logged("write refused")["refused"], 3);

        let scrape = Scraped::of(&guarded.metrics).0;
        for line in [
            "polyplane_p4runtime_updates_total{device=\"1\",outcome=\"refused\"} 3",
            "polyplane_p4runtime_configs_total{device=\"1\"} 1",
            "polyplane_p4runtime_sessions{device=\"1\"} 1",
            "polyplane_p4runtime_primaries{device=\"1\"} 1",
            "polyplane_p4runtime_write_seconds_count{device=\"1\"} 1",
        ] {
            assert!(scrape.contains(line), "{line} in {scrape}");
        }
        drop(stream);
    });
    // Dropping the runtime ends its connections.
    drop(runtime);
    guarded.logged("the primary has gone");
    guarded.running.signal("TERM");
    assert_eq!(guarded.running.finish().status, Some(0));
}
