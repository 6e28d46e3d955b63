//! Commands about the server.

use super::family;

family! { "server":
    Command "command" "[COUNT|LIST|INFO|DOCS|GETKEYS …]" -1 "loading stale" (0, 0, 0) "2.8.13"
        "Describes commands.";
    Info "info" "[section …]" -1 "loading stale" (0, 0, 0) "1.0.0"
        "Describes the server.";
    Time "time" "" 1 "loading stale fast" (0, 0, 0) "2.6.0"
        "Returns the server's wall clock.";
    Config "config" "GET pattern …|HELP" -2 "admin noscript loading stale" (0, 0, 0) "2.0.0"
        "Reads settings.";
    Dbsize "dbsize" "" 1 "readonly fast" (0, 0, 0) "1.0.0"
        "Counts the keys at this site.";
    Acl "acl" "WHOAMI|LIST|USERS|GETUSER|CAT|GENPASS|HELP …" -2 "noscript loading stale" (0, 0, 0) "6.0.0"
        "Shows users and their rights.";
}
