//! Solera's own commands: interactive transactions, causal pasts, levels.

use super::family;

family! { "solera":
    SoleraBegin "solera.begin" -1 "noscript fast" (0, 0, 0) "0.1.0"
        "Opens an interactive transaction.";
    SoleraCommit "solera.commit" 1 "noscript fast" (0, 0, 0) "0.1.0"
        "Commits the open transaction.";
    SoleraAbort "solera.abort" -1 "noscript fast" (0, 0, 0) "0.1.0"
        "Drops the open transaction, and certifies on request what it has read.";
    SoleraToken "solera.token" 1 "fast" (0, 0, 0) "0.1.0"
        "Tells the session's causal and durability past.";
    SoleraAttach "solera.attach" -2 "noscript" (0, 0, 0) "0.1.0"
        "Waits until this site holds a token's causal past, or all until a time.";
    SoleraBarrier "solera.barrier" -1 "noscript" (0, 0, 0) "0.1.0"
        "Waits until the session's durability past survives the loss of f sites.";
    SoleraSite "solera.site" 1 "fast" (0, 0, 0) "0.1.0"
        "Names the site.";
    SoleraSites "solera.sites" -1 "admin" (0, 0, 0) "0.1.0"
        "Tells how the sites stand, and removes or adds one.";
    SoleraSpaces "solera.spaces" 1 "fast" (0, 0, 0) "0.1.0"
        "Lists the spaces and their levels.";
    SoleraLevel "solera.level" 2 "fast" (1, 1, 1 "RO") "0.1.0"
        "Tells the level of a key.";
    SoleraAtRisk "solera.at-risk" -1 "admin" (0, 0, 0) "0.1.0"
        "Tells what the loss of sites could still undo.";
    SoleraExport "solera.export" -1 "admin readonly" (0, 0, 0) "0.1.0"
        "Tells all keys of the open transaction's snapshot and what they hold.";
    SoleraTxid "solera.txid" 1 "noscript fast" (0, 0, 0) "0.1.0"
        "Names the open strong transaction.";
    SoleraOutcome "solera.outcome" 2 "fast" (0, 0, 0) "0.1.0"
        "Tells what became of a strong transaction.";
    SoleraLeaders "solera.leaders" -1 "admin" (0, 0, 0) "0.1.0"
        "Tells from which sites strong transactions are led, and moves that.";
    SoleraModule "solera.module" -2 "noscript" (0, 0, 0) "0.1.0"
        "Loads modules of transactions, and tells of those that there are.";
    SoleraCall "solera.call" -2 "noscript" (0, 0, 0) "0.1.0"
        "Runs a transaction of a module.";
    SoleraPhase "solera.phase" -2 "admin noscript" (0, 0, 0) "0.1.0"
        "Runs phases of a transaction whose coordinator is elsewhere.";
}
