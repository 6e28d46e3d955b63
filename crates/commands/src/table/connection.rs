//! Commands about the connection.

use super::family;

family! { "connection":
    Ping "ping" -1 "fast" (0, 0, 0) "1.0.0"
        "Answers PONG, or its argument.";
    Echo "echo" 2 "loading stale fast" (0, 0, 0) "1.0.0"
        "Answers its argument.";
    Hello "hello" -1 "noscript loading stale fast no_auth allow_busy" (0, 0, 0) "6.0.0"
        "Chooses the protocol and tells about the server.";
    Select "select" 2 "loading stale fast" (0, 0, 0) "1.0.0"
        "Chooses database 0, the only one.";
    Quit "quit" -1 "noscript loading stale fast no_auth allow_busy" (0, 0, 0) "1.0.0"
        "Closes the connection.";
    Reset "reset" 1 "noscript loading stale fast no_auth allow_busy" (0, 0, 0) "6.2.0"
        "Returns the connection to its first state.";
    Auth "auth" -2 "noscript loading stale fast no_auth allow_busy" (0, 0, 0) "1.0.0"
        "Tells the server which user the connection is.";
    Client "client" -2 "noscript" (0, 0, 0) "2.4.0"
        "Tells and changes what the server knows of the client.";
    Wait "wait" 3 "noscript" (0, 0, 0) "3.0.0"
        "Waits until other sites hold the session's past.";
}
