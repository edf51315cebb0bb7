//! Apache Kafka itself, fetched from Maven and run as one combined KRaft node: the judge beside Ottla.

use crate::process::{self, Guard};
use crate::raw;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The release of Apache Kafka that Ottla is held against.
pub(crate) const VERSION: &str = "4.4.0";

/// How to start a node.
pub(crate) struct Options {
    /// The port of 127.0.0.1 to listen on.
    pub(crate) port: u16,
    /// The port told to clients, when something stands in between.
    pub(crate) advertised: u16,
    /// The port of a second listener, with SASL and without encryption.
    pub(crate) sasl: Option<u16>,
    /// The data folder; it is formatted when it is not yet.
    pub(crate) folder: PathBuf,
    /// Further server properties, which win over the ones set here.
    pub(crate) settings: Vec<(String, String)>,
}

/// A running node, stopped when dropped.
pub(crate) struct Node {
    guard: Guard,
    log: PathBuf,
}

impl Node {
    /// Waits until the node ends by itself.
    fn wait(mut self) -> Result<(), String> {
        loop {
            if let Some(status) = self.guard.wait(Instant::now() + Duration::from_secs(3600))? {
                let log = self.log.display();
                return Err(format!("Apache Kafka ended with {status}; see {log}"));
            }
        }
    }

    /// Ends the node as a crash would (`kill -9`); its data folder stays.
    pub(crate) fn kill(self) {
        self.guard.kill();
    }

    /// The node's process.
    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The process id of the node's JVM.
    pub(crate) fn id(&self) -> u32 {
        self.guard.id()
    }
}

/// `cargo xtask kafka`: runs a node until it is interrupted.
pub(crate) fn run(port: u16, folder: Option<PathBuf>) -> Result<(), String> {
    let started = Instant::now();
    let options = Options {
        sasl: None,
        port,
        advertised: port,
        folder: match folder {
            Some(folder) => folder,
            None => fresh_folder(&format!("node-{port}"))?,
        },
        settings: Vec::new(),
    };
    let node = start(&options)?;
    println!(
        "Apache Kafka {VERSION} is ready on 127.0.0.1:{port} after {} ms, process {}, data in {}",
        started.elapsed().as_millis(),
        node.id(),
        options.folder.display()
    );
    node.wait()
}

/// An empty folder for a node's data below `target/kafka-VERSION`.
pub(crate) fn fresh_folder(name: &str) -> Result<PathBuf, String> {
    let folder = home().join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|e| format!("cannot empty {}: {e}", folder.display()))?;
    }
    Ok(folder)
}

/// Starts a node and returns when it answers requests; fetches Kafka first when it is not there.
pub(crate) fn start(options: &Options) -> Result<Node, String> {
    let mut command = prepare(options)?;
    let log = log_file(options);
    let mut guard = Guard::start(&mut command)?;
    await_ready(&mut guard, options.port, &log)?;
    Ok(Node { guard, log })
}

/// The command that runs a node, its storage formatted; fetches Kafka first when it is not there.
pub(crate) fn prepare(options: &Options) -> Result<Command, String> {
    let jars = fetch()?;
    let folder = &options.folder;
    fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let properties = folder.join("server.properties");
    write(&properties, &server_properties(options)?)?;
    let logging = folder.join("log4j2.properties");
    write(&logging, &log_properties(&log_file(options)))?;
    format_storage(&jars, &properties, &logging)?;

    let mut command = java(&jars, &logging, "kafka.Kafka");
    command.arg(&properties);
    let out = fs::File::create(folder.join("stdout.log"))
        .map_err(|e| format!("cannot make a log in {}: {e}", folder.display()))?;
    let err = out.try_clone().map_err(|e| e.to_string())?;
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    Ok(command)
}

fn log_file(options: &Options) -> PathBuf {
    options.folder.join("server.log")
}

fn await_ready(guard: &mut Guard, port: u16, log: &Path) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let unready = match raw::api_versions(process::local(port)) {
            Ok(_) => return Ok(()),
            Err(unready) => unready,
        };
        let log = log.display();
        if let Some(status) = guard.ended()? {
            return Err(format!("Apache Kafka ended with {status}; see {log}"));
        }
        if Instant::now() >= deadline {
            return Err(format!("Apache Kafka is not ready after 60 s: {unready}; see {log}"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn home() -> PathBuf {
    process::root().join(format!("target/kafka-{VERSION}"))
}

/// Fetches the broker and its dependencies with Maven, once, and returns the folder of jars.
pub(crate) fn fetch() -> Result<PathBuf, String> {
    fetch_jars(&home(), "kafka_2.13")
}

/// Fetches Kafka's command line tools, which a broker does without, in the same way.
pub(crate) fn fetch_tools() -> Result<PathBuf, String> {
    fetch_jars(&process::root().join(format!("target/kafka-tools-{VERSION}")), "kafka-tools")
}

fn fetch_jars(home: &Path, name: &str) -> Result<PathBuf, String> {
    let jars = home.join("jars");
    let done = home.join("pom.xml.done");
    let pom = pom(name);
    if fs::read_to_string(&done).is_ok_and(|fetched| fetched == pom) {
        return Ok(jars);
    }
    fs::create_dir_all(home).map_err(|e| format!("cannot make {}: {e}", home.display()))?;
    write(&home.join("pom.xml"), &pom)?;
    let target = format!("-DoutputDirectory={}", jars.display());
    let goal = "dependency:copy-dependencies";
    process::run(home, &["mvn", "-q", "-B", goal, target.as_str()])?;
    write(&done, &pom)?;
    Ok(jars)
}

fn pom(name: &str) -> String {
    let dependency = |group: &str, name: &str, version: &str| {
        format!(
            "    <dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>\
             <version>{version}</version></dependency>\n"
        )
    };
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <modelVersion>4.0.0</modelVersion>\n  \
         <groupId>ottla</groupId><artifactId>judge</artifactId><version>1</version><packaging>pom</packaging>\n  \
         <dependencies>\n{}{}  </dependencies>\n</project>\n",
        dependency("org.apache.kafka", name, VERSION),
        dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.5"),
    )
}

fn server_properties(options: &Options) -> Result<String, String> {
    let Options { port, advertised, .. } = options;
    let controller = process::free_port()?;
    let data = options.folder.join("data");
    let sasl = options.sasl.map_or_else(String::new, |port| format!(",SASL_PLAINTEXT://127.0.0.1:{port}"));
    let mut text = format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n\
         controller.listener.names=CONTROLLER\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{sasl}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{advertised}{sasl}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT\n\
         log.dirs={}\n\
         offsets.topic.num.partitions=5\n\
         offsets.topic.replication.factor=1\n\
         transaction.state.log.num.partitions=5\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         share.coordinator.state.topic.num.partitions=5\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n\
         group.initial.rebalance.delay.ms=0\n\
         auto.create.topics.enable=true\n",
        data.display()
    );
    for (name, value) in &options.settings {
        text.push_str(&format!("{name}={value}\n"));
    }
    Ok(text)
}

fn log_properties(log: &Path) -> String {
    format!(
        "status=error\n\
         appender.file.type=File\n\
         appender.file.name=file\n\
         appender.file.fileName={}\n\
         appender.file.layout.type=PatternLayout\n\
         appender.file.layout.pattern=%d %p %c{{1}}: %m%n\n\
         rootLogger.level=info\n\
         rootLogger.appenderRef.file.ref=file\n",
        log.display()
    )
}

fn format_storage(jars: &Path, properties: &Path, logging: &Path) -> Result<(), String> {
    let mut command = java(jars, logging, "kafka.tools.StorageTool");
    command.args(["format", "--ignore-formatted", "--cluster-id", "4L6g3nShT-eMCtK--X86sw"]);
    command.arg("--config").arg(properties);
    let output = process::capture(&mut command, Duration::from_secs(60))?;
    match output.status {
        Some(status) if status.success() => Ok(()),
        _ => Err(format!("formatting Kafka's storage failed: {}{}", output.stdout, output.stderr)),
    }
}

fn java(jars: &Path, logging: &Path, class: &str) -> std::process::Command {
    let mut command = std::process::Command::new("java");
    command.arg("-Xmx512m");
    command.arg(format!("-Dlog4j2.configurationFile={}", logging.display()));
    command.arg("-cp").arg(jars.join("*")).arg(class);
    command
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
}
