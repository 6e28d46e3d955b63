//! Commands about the connection.

use super::family;

family! { "connection":
    Ping "ping" "[message]" -1 "fast" (0, 0, 0) "1.0.0"
        "Returns PONG, or its argument.";
    Echo "echo" "message" 2 "loading stale fast" (0, 0, 0) "1.0.0"
        "Returns its argument.";
    Hello "hello" "[2|3 [AUTH user password] [SETNAME name]]" -1 "noscript loading stale fast no_auth allow_busy" (0, 0, 0) "6.0.0"
        "Selects the protocol and describes the server.";
    Select "select" "0" 2 "loading stale fast" (0, 0, 0) "1.0.0"
        "Selects database 0, the only one.";
    Quit "quit" "" -1 "noscript loading stale fast no_auth allow_busy" (0, 0, 0) "1.0.0"
        "Closes the connection.";
    Reset "reset" "" 1 "noscript loading stale fast no_auth allow_busy" (0, 0, 0) "6.2.0"
        "Returns the connection to its first state.";
    Auth "auth" "[user] password" -2 "noscript loading stale fast no_auth allow_busy" (0, 0, 0) "1.0.0"
        "Authenticates the connection.";
    Client "client" "ID|GETNAME|SETNAME|SETINFO|INFO|LIST|KILL|REPLY|NO-EVICT|NO-TOUCH|HELP …" -2 "noscript" (0, 0, 0) "2.4.0"
        "Shows and changes the server's information about clients.";
    Wait "wait" "sites ms" 3 "noscript" (0, 0, 0) "3.0.0"
        "Waits until other sites store the session's past.";
}
