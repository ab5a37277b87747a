"""Common English words, most of them one token in every vocabulary. Their order is part of every seed."""

_TEXT = """
time year people way day man thing woman life child world school state family student group country problem hand part
place case week company system program question work government number night point home water room mother area money
story fact month lot right study book eye job word business issue side kind head house service friend father power
hour game line end member law car city community name president team minute idea body information back parent face
others level office door health person art history party result change morning reason research moment air teacher
education foot boy age policy music market sense nation plan college interest experience effect use class control
field development role effort rate heart show leader light voice wife mind price report decision son view relationship
town road arm difference value building action season society director position player record paper space ground form
event official matter center couple site project base situation industry figure street image phone data picture
practice piece land product doctor wall news test movie north love support technology step baby computer type
attention film tree source organization hair look century evidence window culture chance brother energy period course
summer plant opportunity term letter condition choice rule daughter south husband floor campaign material population
call economy risk fire future bank west sport board subject officer goal rest behavior performance top quality
pressure answer resource bed detail trade network ship truth garden river mountain bridge island forest stone glass
metal cloud storm winter spring bird horse fish dog cat cow corn bread milk salt sugar green blue red gray gold silver
large small great high long little old young important early late strong hard open free clear full special easy short
simple single common low recent nice current close dark fine deep hot cold warm dry wet heavy quick slow quiet bright
wide narrow sharp soft rich poor fresh clean safe
"""

WORDS: tuple[str, ...] = tuple(_TEXT.split())
