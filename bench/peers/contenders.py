"""All that take part, Gnomon first."""

from bench.peers.bullmq.adapter import BULLMQ
from bench.peers.gnomon_contender import GnomonContender
from bench.peers.graphile_worker.adapter import GRAPHILE_WORKER
from bench.peers.pg_boss.adapter import PG_BOSS
from bench.peers.pgqueuer.adapter import PGQUEUER
from bench.peers.port import Contender
from bench.peers.procrastinate.adapter import PROCRASTINATE
from bench.peers.river.adapter import RIVER

GNOMON = GnomonContender()
PEERS: dict[str, Contender] = {
    peer.name: peer for peer in (GRAPHILE_WORKER, RIVER, PGQUEUER, BULLMQ, PG_BOSS, PROCRASTINATE)
}
