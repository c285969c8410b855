module ackbench/gocommon

go 1.24
