// Prometheus as kube-prometheus-stack runs it (3.14.0), without its web interface.
module activity-sync/tools/prometheus

go 1.26.0

tool (
	github.com/prometheus/prometheus/cmd/prometheus
)

require github.com/prometheus/prometheus v0.314.0
