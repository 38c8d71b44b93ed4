//! WordPress on nginx, PHP-FPM and MariaDB: started in a folder, filled through its own pages,
//! changed while it runs.

use crate::packages::{Tree, run};
use cavy_groups::select;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// What Debian calls the parts.
pub const PACKAGES: [&str; 8] = [
    "nginx",
    "php8.2-fpm",
    "php8.2-cli",
    "php8.2-mysql",
    "php8.2-opcache",
    "mariadb-server",
    "wordpress",
    "wordpress-theme-twentytwentythree",
];

/// Rows of the table that the index is about.
const META_ROWS: u32 = 20_000;
/// Posts, the newest ten of which a feed shows.
const POSTS: u32 = 40;
/// How long a program may take until it listens, or answers a page.
const PATIENCE: Duration = Duration::from_secs(30);

/// In which order they are started.
const STARTED: [Tier; 3] = [Tier::Database, Tier::Php, Tier::Web];

/// A part that can be stopped on its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// nginx.
    Web,
    /// PHP-FPM.
    Php,
    /// MariaDB.
    Database,
}

impl Tier {
    /// All of them, in the order in which a request meets them.
    pub const ALL: [Tier; 3] = [Tier::Web, Tier::Php, Tier::Database];

    /// As shown.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Web => "nginx",
            Tier::Php => "php-fpm",
            Tier::Database => "mariadb",
        }
    }
}

/// What can be changed while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// PHP keeps compiled scripts.
    pub opcache: bool,
    /// How hard nginx compresses, 1 to 9.
    pub gzip_level: u8,
    /// Processes of PHP-FPM.
    pub children: u16,
    /// The table of what belongs to posts has its index on posts.
    pub index: bool,
    /// Rounds of MD5 that a script of PHP's own setting does before each page.
    pub php_burn: u32,
    /// Rounds of arithmetic that the database does for each connection by its own setting.
    pub database_burn: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            opcache: true,
            gzip_level: 6,
            // So many that a tier has work while the others stand, and so few that pages do not
            // end in waves.
            children: 12,
            index: true,
            php_burn: 0,
            database_burn: 0,
        }
    }
}

impl Settings {
    /// The next request already meets what differs: nothing starts anew for it, and no table is
    /// built. That is so for burns.
    #[must_use]
    pub fn next_request_meets(&self, other: &Settings) -> bool {
        let Settings { php_burn, database_burn, .. } = *other;
        Settings { php_burn, database_burn, ..*self } == *other
    }
}

/// WordPress at work, until this is dropped.
#[derive(Debug)]
pub struct Wordpress {
    tree: Tree,
    folder: PathBuf,
    ports: [u16; 3],
    settings: Settings,
    running: Vec<Child>,
}

impl Wordpress {
    /// Starts it in `folder`, which is made, and fills it.
    ///
    /// # Errors
    /// A sentence with what a program said last.
    pub fn start(tree: &Tree, folder: &Path, settings: Settings) -> Result<Wordpress, String> {
        let mut one = Wordpress {
            tree: tree.clone(),
            folder: folder.to_path_buf(),
            ports: free_ports()?,
            settings,
            running: Vec::new(),
        };
        one.lay()?;
        one.start_database()?;
        one.start_php()?;
        one.start_web()?;
        one.install()?;
        let wanted = one.settings;
        one.settings = Settings { index: true, database_burn: 0, ..wanted };
        one.apply(wanted)?;
        Ok(one)
    }

    /// Where nginx listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port(Tier::Web)))
    }

    /// Where a tier listens.
    pub fn port(&self, tier: Tier) -> u16 {
        self.ports[tier as usize]
    }

    /// What is set now.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The first process of a tier, once it was started.
    pub fn master(&self, tier: Tier) -> Option<i32> {
        let order = STARTED.iter().position(|one| *one == tier)?;
        self.running.get(order).map(|child| child.id() as i32)
    }

    /// All processes of a tier now.
    pub fn processes(&self, tier: Tier) -> BTreeSet<i32> {
        let roots: BTreeSet<i32> = self.master(tier).into_iter().collect();
        select::processes().map_or(BTreeSet::new(), |all| select::with_descendants(&all, &roots))
    }

    /// Asks for a page, as a browser that takes compressed answers.
    ///
    /// # Errors
    /// A sentence, when it is not answered with 200.
    pub fn get(&self, path: &str) -> Result<Vec<u8>, String> {
        self.ask("GET", path, "")
    }

    /// Asks for a page so many times, as so many clients.
    ///
    /// # Errors
    /// What the first client says that was not answered.
    pub fn get_all(&self, path: &str, times: u32, clients: u32) -> Result<(), String> {
        let left = AtomicU32::new(times);
        let take = || left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        let client = || {
            while take() {
                self.get(path)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
            let ended = all
                .into_iter()
                .map(|one| one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            // All are waited for, whatever the first said.
            ended.collect::<Vec<_>>().into_iter().collect()
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn shown(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    fn lay(&self) -> Result<(), String> {
        let failed = |error| format!("cannot fill {}: {error}", self.folder.display());
        for name in ["db", "run", "log", "tmp", "www"] {
            fs::create_dir_all(self.file(name)).map_err(failed)?;
        }
        let from = self.tree.path("usr/share/wordpress");
        let mut copy = Command::new("cp");
        // Links of the package that lead nowhere here are what Debian keeps below /etc.
        let _ = run(copy.arg("-rL").arg(from.join(".")).arg(self.file("www")));
        fs::write(self.file("www/wp-config.php"), self.wp_config()).map_err(failed)?;
        fs::write(self.file("prepended.php"), self.prepended()).map_err(failed)?;
        fs::write(self.file("burn"), self.settings.php_burn.to_string()).map_err(failed)?;
        self.write_settings().map_err(failed)?;
        run(Command::new("chown").args(["-R", "www-data:www-data"]).arg(&self.folder))
    }

    fn write_settings(&self) -> std::io::Result<()> {
        fs::write(self.file("php.ini"), self.php_ini())?;
        fs::write(self.file("fpm.conf"), self.fpm_conf())?;
        fs::write(self.file("nginx.conf"), self.nginx_conf())
    }

    fn wp_config(&self) -> String {
        let mut out = String::from("<?php\n");
        let host = format!("127.0.0.1:{}", self.port(Tier::Database));
        for (name, value) in [
            ("DB_NAME", "wordpress"),
            ("DB_USER", "wp"),
            ("DB_PASSWORD", "wp"),
            ("DB_HOST", &host),
            ("DB_CHARSET", "utf8mb4"),
            ("DB_COLLATE", ""),
        ] {
            let _ = writeln!(out, "define('{name}', '{value}');");
        }
        for name in
            ["AUTH_KEY", "SECURE_AUTH_KEY", "LOGGED_IN_KEY", "NONCE_KEY", "AUTH_SALT", "NONCE_SALT"]
        {
            let _ = writeln!(out, "define('{name}', 'measured and thrown away: {name}');");
        }
        // Nobody outside is asked, and nothing is done but what a client asks for.
        for name in ["DISABLE_WP_CRON", "WP_HTTP_BLOCK_EXTERNAL", "AUTOMATIC_UPDATER_DISABLED"] {
            let _ = writeln!(out, "define('{name}', true);");
        }
        out.push_str("$table_prefix = 'wp_';\n");
        out.push_str("if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');\n");
        out.push_str("require_once ABSPATH . 'wp-settings.php';\n");
        out
    }

    /// The knob of PHP: work of a fixed amount, so that a pause does not shorten it.
    fn prepended(&self) -> String {
        format!(
            "<?php\nfor ($i = (int) file_get_contents('{}'); $i > 0; $i--) md5('cavy' . $i);\n",
            self.shown("burn")
        )
    }

    fn php_ini(&self) -> String {
        let mut out = format!(
            "extension_dir={}\nextension=mysqlnd\nextension=mysqli\nauto_prepend_file={}\n",
            self.tree.path("usr/lib/php/20220829").display(),
            self.shown("prepended.php")
        );
        if self.settings.opcache {
            out.push_str("zend_extension=opcache\nopcache.enable=1\n");
        }
        out
    }

    fn fpm_conf(&self) -> String {
        format!(
            "[global]\nerror_log = {}\ndaemonize = no\nprocess_control_timeout = 10s\n[www]\n\
             listen = 127.0.0.1:{}\nlisten.backlog = 511\npm = static\npm.max_children = {}\n",
            self.shown("log/fpm"),
            self.port(Tier::Php),
            self.settings.children
        )
    }

    fn nginx_conf(&self) -> String {
        let mut temporary = String::new();
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            let _ = writeln!(temporary, "{kind}_temp_path {};", self.shown(&format!("tmp/{kind}")));
        }
        format!(
            "worker_processes 1; daemon off; pid {pid}; error_log {log};\n\
             events {{ worker_connections 1024; }}\n\
             http {{ access_log off; keepalive_requests 1000000;\n{temporary}\
             gzip on; gzip_comp_level {level}; gzip_min_length 200;\n\
             gzip_types text/xml application/rss+xml application/json text/css;\n\
             server {{ listen 127.0.0.1:{port}; root {www}; index index.php;\n\
             location ~ \\.php$ {{ fastcgi_pass 127.0.0.1:{php}; include {params};\n\
             fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }} }} }}\n",
            pid = self.shown("run/nginx.pid"),
            log = self.shown("log/nginx"),
            level = self.settings.gzip_level,
            port = self.port(Tier::Web),
            php = self.port(Tier::Php),
            www = self.shown("www"),
            params = self.tree.path("etc/nginx/fastcgi_params").display(),
        )
    }

    fn spawn(&mut self, mut command: Command, log: &str, tier: Tier) -> Result<(), String> {
        let out = File::create(self.file(log)).map_err(|error| format!("{log}: {error}"))?;
        let err = out.try_clone().map_err(|error| format!("{log}: {error}"))?;
        let child = command.stdout(Stdio::from(out)).stderr(Stdio::from(err)).spawn();
        let child = child.map_err(|error| format!("cannot start {}: {error}", tier.name()))?;
        self.running.push(child);
        let port = self.port(tier);
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        if wait(listens) {
            return Ok(());
        }
        Err(format!("{} does not listen; it said: {}", tier.name(), self.last_words(log)))
    }

    fn last_words(&self, log: &str) -> String {
        let text = fs::read_to_string(self.file(log)).unwrap_or_default();
        let last: Vec<&str> = text.lines().rev().take(3).collect();
        last.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    fn database_options(&self) -> Vec<String> {
        let of = |path: &str| self.tree.path(path).display().to_string();
        vec![
            "--no-defaults".to_string(),
            format!("--datadir={}", self.shown("db")),
            format!("--basedir={}", of("usr")),
            format!("--lc-messages-dir={}", of("usr/share/mysql")),
            format!("--plugin-dir={}", of("usr/lib/mysql/plugin")),
        ]
    }

    fn start_database(&mut self) -> Result<(), String> {
        let mut install = self.tree.command("usr/bin/mariadb-install-db");
        install.args(self.database_options()).arg("--skip-test-db");
        run(install
            .args(["--auth-root-authentication-method=socket"])
            .args(["--auth-root-socket-user=www-data", "--skip-name-resolve"]))?;
        let mut command = self.tree.command("usr/sbin/mariadbd");
        command.args(self.database_options()).args([
            "--bind-address=127.0.0.1".to_string(),
            format!("--port={}", self.port(Tier::Database)),
            format!("--socket={}", self.shown("run/db.sock")),
            format!("--pid-file={}", self.shown("run/db.pid")),
            "--innodb-flush-log-at-trx-commit=0".to_string(),
            "--skip-name-resolve".to_string(),
        ]);
        self.spawn(command, "log/db", Tier::Database)?;
        self.sql(
            "CREATE DATABASE wordpress; CREATE USER wp@'127.0.0.1' IDENTIFIED BY 'wp'; \
             GRANT ALL ON wordpress.* TO wp@'127.0.0.1'",
        )
    }

    /// Statements, by the client that comes with the database and as its owner.
    fn sql(&self, statements: &str) -> Result<(), String> {
        let mut client = self.tree.command("usr/bin/mariadb");
        client.args(["--no-defaults", "--user=www-data", "--socket"]).arg(self.file("run/db.sock"));
        run(client.args(["--execute", statements]))
    }

    fn start_php(&mut self) -> Result<(), String> {
        let mut command = self.tree.command("usr/sbin/php-fpm8.2");
        command.arg("-c").arg(self.file("php.ini")).arg("-y").arg(self.file("fpm.conf"));
        self.spawn(command, "log/php", Tier::Php)
    }

    fn start_web(&mut self) -> Result<(), String> {
        let mut command = self.tree.command("usr/sbin/nginx");
        command.arg("-p").arg(&self.folder).arg("-c").arg(self.file("nginx.conf"));
        command.arg("-e").arg(self.file("log/nginx"));
        self.spawn(command, "log/web", Tier::Web)
    }

    /// As its owner would: the page that installs it, then what a site has after some time. The
    /// database would look at its tables anew some ten seconds later, and answer in another way.
    fn install(&self) -> Result<(), String> {
        let form = "weblog_title=cavy&user_name=cavy&admin_password=cavy-1-cavy\
                    &admin_password2=cavy-1-cavy&pw_weak=1&admin_email=a%40example.org\
                    &blog_public=0";
        let page = self.ask("POST", "/wp-admin/install.php?step=2", form)?;
        if !String::from_utf8_lossy(&page).contains("Success") {
            return Err("the page that installs WordPress did not say that it succeeded".into());
        }
        self.sql(&format!(
            "USE wordpress; INSERT INTO wp_posts (post_author, post_date, post_date_gmt, \
             post_content, post_title, post_excerpt, post_status, post_name, to_ping, pinged, \
             post_modified, post_modified_gmt, post_content_filtered, guid, post_type) SELECT 1, \
             '2026-01-01' + INTERVAL seq HOUR, '2026-01-01' + INTERVAL seq HOUR, \
             CONCAT('<p>', REPEAT(CONCAT(MD5(seq), ' makes what faster '), 60), '</p>'), \
             CONCAT('Post ', seq), '', 'publish', CONCAT('post-', seq), '', '', '2026-01-01', \
             '2026-01-01', '', CONCAT('http://cavy/', seq), 'post' FROM seq_1_to_{POSTS}; \
             INSERT INTO wp_postmeta (post_id, meta_key, meta_value) SELECT 100 + seq MOD 1000, \
             CONCAT('key', seq MOD 20), MD5(seq) FROM seq_1_to_{META_ROWS}; \
             ANALYZE TABLE wp_posts, wp_postmeta"
        ))
    }

    /// Changes what runs to `wanted`, without stopping it.
    ///
    /// # Errors
    /// A sentence with what a program said.
    pub fn apply(&mut self, wanted: Settings) -> Result<(), String> {
        let before = std::mem::replace(&mut self.settings, wanted);
        let failed = |error| format!("cannot write settings: {error}");
        fs::write(self.file("burn"), wanted.php_burn.to_string()).map_err(failed)?;
        self.write_settings().map_err(failed)?;
        if before.opcache != wanted.opcache || before.children != wanted.children {
            self.reload_php()?;
        }
        if before.gzip_level != wanted.gzip_level {
            self.reload_web()?;
        }
        if before.database_burn != wanted.database_burn {
            let burn = match wanted.database_burn {
                0 => String::new(),
                // Nothing that threads share: its MD5 counts users in OpenSSL, and took 0.4 or
                // 0.55 us for as long as one or two of them ran.
                rounds => format!("DO BENCHMARK({rounds}, CRC32(CONCAT(1, RAND())))"),
            };
            self.sql(&format!("SET GLOBAL init_connect = '{burn}'"))?;
        }
        if before.index != wanted.index {
            let how =
                if wanted.index { "ADD INDEX post_id (post_id)" } else { "DROP INDEX post_id" };
            self.sql(&format!("ALTER TABLE wordpress.wp_postmeta {how}"))?;
        }
        Ok(())
    }

    fn signal(&self, tier: Tier, signal: Signal) -> Result<(), String> {
        let pid = self.master(tier).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| format!("{} does not run", tier.name()))?;
        kill_process(pid, signal).map_err(|error| format!("{} is gone: {error}", tier.name()))
    }

    /// A reload is over when none of the old workers is left.
    fn reload_php(&self) -> Result<(), String> {
        self.reload(Tier::Php, Signal::USR2)
    }

    fn reload_web(&self) -> Result<(), String> {
        self.reload(Tier::Web, Signal::HUP)
    }

    fn reload(&self, tier: Tier, signal: Signal) -> Result<(), String> {
        let before = self.workers(tier);
        self.signal(tier, signal)?;
        let enough = match tier {
            Tier::Php => usize::from(self.settings.children),
            _ => 1,
        };
        let replaced = || {
            let now = self.workers(tier);
            now.is_disjoint(&before) && now.len() >= enough
        };
        if wait(replaced) { Ok(()) } else { Err(format!("{} did not reload", tier.name())) }
    }

    fn workers(&self, tier: Tier) -> BTreeSet<i32> {
        let master = self.master(tier);
        self.processes(tier).into_iter().filter(|pid| Some(*pid) != master).collect()
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<Vec<u8>, String> {
        let failed = |error: std::io::Error| format!("{path} is not answered: {error}");
        let mut stream = TcpStream::connect(self.address()).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: \
             application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n{gzip}\r\n{body}",
            host = self.address(),
            length = body.len(),
            gzip = if method == "GET" { "Accept-Encoding: gzip\r\n" } else { "" },
        );
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map_err(failed)?;
        if answer.starts_with(b"HTTP/1.1 200") {
            return Ok(answer);
        }
        let first = String::from_utf8_lossy(&answer).lines().next().unwrap_or("").to_string();
        Err(format!("{path} is answered with `{first}`; {}", self.last_words("log/php")))
    }
}

impl Drop for Wordpress {
    fn drop(&mut self) {
        for tier in [Tier::Web, Tier::Php, Tier::Database] {
            let _ = self.signal(tier, Signal::TERM);
        }
        for child in self.running.iter_mut().rev() {
            let ended = wait(|| !matches!(child.try_wait(), Ok(None)));
            if !ended {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// Looks every few milliseconds until something holds; false when it never did.
fn wait(mut holds: impl FnMut() -> bool) -> bool {
    let step = Duration::from_millis(20);
    let steps = PATIENCE.as_millis() / step.as_millis();
    for _ in 0..steps {
        if holds() {
            return true;
        }
        std::thread::sleep(step);
    }
    false
}

/// Three ports that were free a moment ago.
fn free_ports() -> Result<[u16; 3], String> {
    let failed = |error: std::io::Error| format!("no port is free: {error}");
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(TcpListener::bind("127.0.0.1:0").map_err(failed)?);
    }
    let mut ports = [0; 3];
    for (port, socket) in ports.iter_mut().zip(&held) {
        *port = socket.local_addr().map_err(failed)?.port();
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(settings: Settings) -> Wordpress {
        Wordpress {
            tree: Tree::below(Path::new("/tree")),
            folder: PathBuf::from("/folder"),
            ports: [81, 82, 83],
            settings,
            running: Vec::new(),
        }
    }

    #[test]
    fn settings_reach_the_files_of_the_programs() {
        let plain = idle(Settings::default());
        let other = idle(Settings { opcache: false, gzip_level: 9, children: 2, ..plain.settings });
        assert!(plain.php_ini().contains("opcache.enable=1"));
        assert!(!other.php_ini().contains("opcache"));
        assert!(other.nginx_conf().contains("gzip_comp_level 9;"));
        assert!(other.fpm_conf().contains("pm.max_children = 2\n"));
        for (text, port) in
            [(plain.nginx_conf(), ":81;"), (plain.fpm_conf(), ":82\n"), (plain.wp_config(), ":83'")]
        {
            assert!(text.contains(port), "{port} in {text}");
        }
    }

    #[test]
    fn nobody_outside_is_asked() {
        let config = idle(Settings::default()).wp_config();
        for name in ["DISABLE_WP_CRON", "WP_HTTP_BLOCK_EXTERNAL", "AUTOMATIC_UPDATER_DISABLED"] {
            assert!(config.contains(&format!("define('{name}', true)")), "{name}");
        }
    }

    #[test]
    fn three_ports_are_three() {
        let ports = free_ports().expect("ports");
        assert!(ports[0] != ports[1] && ports[1] != ports[2] && ports[0] != ports[2]);
    }
}
