//! Solera's own commands: interactive transactions, causal pasts, levels.

use super::family;

family! { "solera":
    SoleraBegin "solera.begin" "[CAUSAL|STRONG|PCPSI]" -1 "noscript fast" (0, 0, 0) "0.1.0"
        "Opens an interactive transaction.";
    SoleraCommit "solera.commit" "" 1 "noscript fast" (0, 0, 0) "0.1.0"
        "Commits the open transaction.";
    SoleraAbort "solera.abort" "[CERTIFY]" -1 "noscript fast" (0, 0, 0) "0.1.0"
        "Aborts the open transaction, and certifies its reads on request.";
    SoleraToken "solera.token" "" 1 "fast" (0, 0, 0) "0.1.0"
        "Returns the session's causal and durability past as a token.";
    SoleraAttach "solera.attach" "token|UNTIL unix-ms [timeout-ms [site …]]|HORIZON" -2 "noscript" (0, 0, 0) "0.1.0"
        "Waits until this site stores a token's causal past, or everything up to a time.";
    SoleraBarrier "solera.barrier" "[timeout-ms]" -1 "noscript" (0, 0, 0) "0.1.0"
        "Waits until the session's durability past survives the loss of f sites.";
    SoleraSite "solera.site" "" 1 "fast" (0, 0, 0) "0.1.0"
        "Returns the name of the site.";
    SoleraSites "solera.sites" "[REMOVE site [FORCE]|ADD site|HELP]" -1 "admin" (0, 0, 0) "0.1.0"
        "Returns the statuses of the sites, and removes or adds one.";
    SoleraSpaces "solera.spaces" "" 1 "fast" (0, 0, 0) "0.1.0"
        "Lists the spaces and their levels.";
    SoleraLevel "solera.level" "key" 2 "fast" (1, 1, 1 "RO") "0.1.0"
        "Returns the level of a key.";
    SoleraRead "solera.read" "key AT level|WITHIN ms [command [argument …]]" -4 "readonly" (1, 1, 1 "RO access") "0.1.0"
        "Reads a key at a chosen level, or at the strongest level that arrives in time.";
    SoleraInterval "solera.interval" "key [command]" -2 "readonly" (1, 1, 1 "RO access") "0.1.0"
        "Returns an interval that contains the value of a counter or the size of a set with a bound.";
    SoleraRights "solera.rights" "key" 2 "readonly" (1, 1, 1 "RO access") "0.1.0"
        "Returns the sites that hold tokens or rights of a counter or set with a bound.";
    SoleraTake "solera.take" "key [number]" -2 "write denyoom fast" (1, 1, 1 "RW access update") "0.1.0"
        "Takes identifiers from a pool, all or none.";
    SoleraGrow "solera.grow" "key number" 3 "write denyoom fast" (1, 1, 1 "RW access update") "0.1.0"
        "Adds identifiers to a pool.";
    SoleraPush "solera.push" "key element …" -3 "write denyoom fast" (1, 1, 1 "RW insert") "0.1.0"
        "Appends elements to a list.";
    SoleraNewest "solera.newest" "key number" 3 "readonly" (1, 1, 1 "RO access") "0.1.0"
        "Returns the newest elements of a list, newest first.";
    SoleraStale "solera.stale" "[HOME|ACCEPT|FAIL]" -1 "fast" (0, 0, 0) "0.1.0"
        "Sets what reads do when a copy lacks what the session has seen, and returns their counts.";
    SoleraHome "solera.home" "[KEY key|MOVE FROM site|SHARDS first-last …|KEY key TO site [FORCE]|HELP]" -1 "admin" (0, 0, 0) "0.1.0"
        "Returns the homes of shards, and moves them.";
    SoleraAtRisk "solera.at-risk" "[COUNT n]" -1 "admin" (0, 0, 0) "0.1.0"
        "Returns what the loss of sites could still undo.";
    SoleraExport "solera.export" "[partition cursor]" -1 "admin readonly" (0, 0, 0) "0.1.0"
        "Returns all keys of the open transaction's snapshot with their contents.";
    SoleraTxid "solera.txid" "" 1 "noscript fast" (0, 0, 0) "0.1.0"
        "Returns the name of the open transaction, strong or of level pcpsi.";
    SoleraOutcome "solera.outcome" "transaction" 2 "fast" (0, 0, 0) "0.1.0"
        "Returns the outcome of a strong transaction, or of one of level pcpsi.";
    SoleraLeaders "solera.leaders" "[PARTITIONS|MOVE site [ALL|SPECULATIVE|partition …]|HELP]" -1 "admin" (0, 0, 0) "0.1.0"
        "Returns the sites that lead strong transactions, and moves leadership.";
    SoleraStable "solera.stable" "ticket [timeout-ms]|HELP" -2 "noscript" (0, 0, 0) "0.1.0"
        "Waits for the final result of an operation of a speculative space.";
    SoleraState "solera.state" "space" 2 "fast" (0, 0, 0) "0.1.0"
        "Returns the numbers of final and tentative operations of a speculative space.";
    SoleraLog "solera.log" "space from count" 4 "admin readonly" (0, 0, 0) "0.1.0"
        "Returns final operations of a speculative space, in their order.";
    SoleraModule "solera.module" "LOAD|DROP|LIST|SOURCE|CHECK|HELP …" -2 "noscript" (0, 0, 0) "0.1.0"
        "Loads modules of transactions, and lists the loaded ones.";
    SoleraCall "solera.call" "[TRACK] [WEAK|STRONG] module.transaction|command argument …|RESUME|INCOMPLETE|COMPLETE|FORGET|HELP …" -2 "noscript" (0, 0, 0) "0.1.0"
        "Runs a transaction of a module, or a command of a speculative space.";
    SoleraPhase "solera.phase" "RUN|SETTLE|LEARN|HELP …" -2 "admin noscript" (0, 0, 0) "0.1.0"
        "Runs phases of a transaction whose coordinator is elsewhere.";
}
