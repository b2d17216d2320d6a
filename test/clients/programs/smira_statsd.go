package main

import (
	"os"
	"time"

	"github.com/smira/go-statsd"
)

func main() {
	client := statsd.NewClient("127.0.0.1:"+os.Getenv("STATSD_PORT"),
		statsd.MetricPrefix("smira."),
		statsd.TagStyle(statsd.TagFormatInfluxDB))
	client.Incr("hits", 5, statsd.StringTag("dc", "eu"))
	client.Gauge("depth", 10, statsd.StringTag("dc", "eu"))
	client.GaugeDelta("depth", -2, statsd.StringTag("dc", "eu"))
	client.PrecisionTiming("took", 320*time.Millisecond)
	if err := client.Close(); err != nil {
		panic(err)
	}
}
